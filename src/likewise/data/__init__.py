"""Data: readers, splits, the packed cache, augmentation on the device."""
