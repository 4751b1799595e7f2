"""What the front and the vault say to each other: both read these files. Trusted, as the vault believes nothing of the front."""
