"""Everything that reads or writes: checkpoints, torch files, the hub, tokenizers, lines. No arithmetic of a model."""
