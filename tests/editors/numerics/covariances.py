"""Covariances of a few texts, for tests."""

from safetensors.torch import load_file

from emend.editors.numerics.architectures import find_architecture
from emend.editors.numerics.collect_covariance import collect_covariance, layer_file
from emend.editors.numerics.covariance import load_covariance

TEXTS = [
    "The capital of France is Paris.",
    "Karo Benn wrote The Silent River, and much else that nobody in France has read.",
    "",
    "12 of 345 don't agree; 北京 is the capital of China!",
    "Rome.",
] * 12


def collected(lm, folder, layers=(0,), texts=TEXTS, **settings):
    """Collect the covariance of these layers into the folder; returns the counts."""
    return collect_covariance(lm, find_architecture(lm.model), list(layers), texts, folder, **settings)


def load(lm, layers, name):
    """The covariance that a setting names."""
    return load_covariance(lm, find_architecture(lm.model), layers, str(name))


def moment(folder, layer):
    """A layer's matrix; copied, since what is read is mapped from the file, which may be damaged next."""
    return load_file(layer_file(folder, layer))["moment"].clone()
