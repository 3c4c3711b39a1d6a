"""One generation, run: engine, device, launch, arena, graphs, receipts, pipeline. No search, no files."""
