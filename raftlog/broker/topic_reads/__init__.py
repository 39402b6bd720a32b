"""Reading whole topics by URL: what is asked, where the records come from, and the stream that is answered."""
