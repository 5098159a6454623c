"""What the captures of databases share: chunks, options, new columns, what positions rest on."""
