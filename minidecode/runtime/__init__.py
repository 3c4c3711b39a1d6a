"""One generation's life: inputs, engine, caches' rows, arena, kept steps, traces, receipts, output. No files."""
