"""How clicks move a user through the latent space (Section userprofile), a module each."""

from slatewise.model.dynamics.base import BASE, Dynamics, Floats, Ints, Recurrent, single_user_steps

__all__ = ["BASE", "Dynamics", "Floats", "Ints", "Recurrent", "single_user_steps"]
