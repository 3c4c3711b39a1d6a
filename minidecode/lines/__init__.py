"""Many lines through a model: batches, pipeline, one thread per stage, timelines. It calls the model's own methods."""
