"""Plain data that every package uses: JSON data, media, indexes, copies of models, masking of secrets."""
