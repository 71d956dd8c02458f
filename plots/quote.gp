# quote.gp - makes `word` one word of the shell.
quoted = "'"
do for [i = 1:strlen(word)] { quoted = quoted.(word[i:i] eq "'" ? "'\\''" : word[i:i]) }
word = quoted."'"
