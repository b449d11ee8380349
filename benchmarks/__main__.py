"""Every benchmark, one after the other."""

from benchmarks import partial, per_chunk

if __name__ == "__main__":
    per_chunk.main()
    partial.main([])
