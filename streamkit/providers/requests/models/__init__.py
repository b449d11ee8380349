"""Facts that differ by model, of vendors whose models several wires have."""
