"""OpenCL C: its dialect, collectives emulated or native, images, helper texts."""
