"""What several kernels of cuda/ share: attention tiles, softmax, reductions, vector loads. No op is here."""
