"""One generation, run: engine, caches' rows, arena, kept steps, receipts, streams, pipeline. No files."""
