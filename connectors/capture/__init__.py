"""What the captures of databases share: what a position rests on, new columns, options."""
