"""What arrives of each documented field and part of a request at each other provider, and how that is found out."""
