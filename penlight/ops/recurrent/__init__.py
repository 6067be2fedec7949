"""Recurrent layers: lstm, gru, rnn over one layer and direction."""
