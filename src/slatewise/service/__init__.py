"""The live service: slates out, feedback in, better every night."""
