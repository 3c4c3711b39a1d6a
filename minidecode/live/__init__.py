"""Live models of transformers that generate here. Neither torch nor transformers is imported before one is given."""
