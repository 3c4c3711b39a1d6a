"""Where arrays lie and kernels run, how weights are stored, and what is launched as one. No op is here."""
