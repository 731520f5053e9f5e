"""Models: backbones, level taps, heads, ensembles, and the Embedder that holds one with its preprocessing."""

from likewise.models.backbones import BACKBONES, LEVELS, Backbone, Level, StagedBackbone, freeze_batch_norm, make_backbone
from likewise.models.embedder import Embedder, Preprocessing
from likewise.models.embedding import embed_batches, embed_packed, tensor_inputs
from likewise.models.heads import HEADS
from likewise.models.network import Member, Network, NetworkSpec, make_network
from likewise.models.pooling import POOLINGS
from likewise.models.weights.pretrained import WEIGHTS, PretrainedWeights, WeightsFile, find_weights, get_weights, is_here
from likewise.models.weights.weight_files import load_weights
from likewise.models.whitening import Whitening, whiten

__all__ = [
    "BACKBONES",
    "HEADS",
    "LEVELS",
    "POOLINGS",
    "WEIGHTS",
    "Backbone",
    "Embedder",
    "Level",
    "Member",
    "Network",
    "NetworkSpec",
    "Preprocessing",
    "PretrainedWeights",
    "StagedBackbone",
    "WeightsFile",
    "Whitening",
    "embed_batches",
    "embed_packed",
    "find_weights",
    "freeze_batch_norm",
    "get_weights",
    "is_here",
    "load_weights",
    "make_backbone",
    "make_network",
    "tensor_inputs",
    "whiten",
]
