"""The inner loops of training on a GPU, in Triton; each has a plain torch reference.

They are imported where tensors are on such a device (`compiled.gpu.takes_triton`) and nowhere else.
`tests/model/kernels/test_gpu.py` compares each with its reference: on a GPU, or on any machine with
Triton by its interpreter (`TRITON_INTERPRET=1`), of which all tests run one case of each kernel.
"""
