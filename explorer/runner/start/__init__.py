"""Before anything of a run is made: whether this torch will do, and what the ranks compute on and talk over."""
