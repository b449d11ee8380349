"""What a gateway keeps for later requests of its clients, and where: in memory, in a database or in Redis."""
