"""What a terminal shows: every rich view and every progress bar. Nothing below imports rich; it calls back."""
