# awk.gp - leaves in `awk` a command of the shell that runs `script` of this folder.
word = here."header.awk"; load here."quote.gp"
awk = "LC_ALL=C awk -f ".word
word = here.script; load here."quote.gp"
awk = awk." -f ".word
