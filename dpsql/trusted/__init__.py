"""The code on which privacy depends: all that the kernel can run, and nothing else. Begin with `kernel/run.py`."""
