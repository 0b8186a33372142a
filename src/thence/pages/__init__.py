"""Pages for people: one HTML file each, with everything in it. The same frame for a verdict, metrics, an
experiment and the demo: the verdict first, then figures, tables, and how to make the page again."""
