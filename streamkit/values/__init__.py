"""Plain data that every package uses: JSON data, media, message formats, references of schemas, masking of secrets."""
