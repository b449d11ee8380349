"""What writers share: the bases of every wire's writer, frames, contents as events."""
