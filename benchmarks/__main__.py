"""Run every benchmark, one after the other."""

from benchmarks import partial_arguments, per_chunk

if __name__ == "__main__":
    per_chunk.main()
    partial_arguments.main([])
