"""What several files of cpu/ share: worker threads, GEMM loops, exp on vectors, low precision. No op is here."""
