"""What a provider declares about itself, and the sink that its parser reports to."""
