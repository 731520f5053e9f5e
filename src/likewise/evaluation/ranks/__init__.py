"""The rank of every positive in its query's ranking, by counting over blocks of similarities: see rank_counter."""
