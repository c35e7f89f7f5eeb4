"""What every command uses: flags that many share, tables, progress, files."""
