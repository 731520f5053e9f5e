"""What is varied in a comparison: settings of methods and of the protocol, point by point."""
