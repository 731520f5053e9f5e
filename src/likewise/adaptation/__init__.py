"""From pretrained features as they are up to a fine-tuned network, as far as it pays on classes that were not trained on."""
