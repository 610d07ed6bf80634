"""What limits a kernel on a GPU, by hardware counters where they may be read, else by counts and the measured time."""
