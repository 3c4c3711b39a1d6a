"""What a model does, one file per kind of call: functions that take a model, most of them methods of `Model`.

They take a `LoadedModel`, which holds what `Model` computes with: so none of these files needs that of `Model` above.
"""
