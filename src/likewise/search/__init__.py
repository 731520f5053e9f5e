"""Search: an index of images, stores that hold it, what is alike in it."""
