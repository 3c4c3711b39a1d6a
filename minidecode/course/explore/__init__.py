"""`minidecode explore`: one generation under several plans, recorded and written as one HTML page."""
