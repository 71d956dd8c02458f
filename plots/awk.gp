# awk.gp - leaves in `awk` a command of the shell that runs header.awk and the `scripts` of this folder.
awk = "LC_ALL=C awk"
do for [k = 0:words(scripts)] {
    word = here.(k == 0 ? "header.awk" : word(scripts, k)); load here."quote.gp"
    awk = awk." -f ".word
}
