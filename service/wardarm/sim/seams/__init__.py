"""The same chunks executed three ways in the simulated controller: what happens where one chunk follows another."""
