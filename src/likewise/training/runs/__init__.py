"""What a training leaves on the disk, and what reads it again."""
