"""What privacy rests on: all that the kernel can run, and nothing else. Begin with `kernel/run.py`."""
