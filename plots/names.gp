# names.gp - names several runs by what their headers say differently; what they say alike is the
# settings line. Loaded after style.gp by charts of more than one file.
#
# Before: `runs`, `given`; of(s, key), what the header of run s says; `keys`, those to look at, the
# telling ones first; `rare`, those that name runs which these do not tell apart. After: title_of[s]
# and `settings`. The first run is named by all that differs, each other by how it differs from the first.
short(key, v) = key ne "policy" ? key." ".v : strlen(v) > 6 && v[1:6] eq "torch," ? v[7:*] : v
array title_of[9]
do for [s = 1:runs] { title_of[s] = "" }
settings = ""; shown = keys
do for [pass = 1:2] {
    do for [i = 1:words(shown)] {
        key = word(shown, i); differs = 0
        do for [s = 2:runs] {
            if (of(s, key) ne of(1, key) && of(s, key) ne "" && of(1, key) ne "") {
                differs = 1
                title_of[s] = title_of[s].(title_of[s] eq "" ? "" : ", ").short(key, of(s, key))
            }
        }
        if (differs) { title_of[1] = title_of[1].(title_of[1] eq "" ? "" : ", ").short(key, of(1, key)) }
        usual = strstrt("|batch 1|workspace 0|activations eager|", "|".key." ".of(1, key)."|")
        if (!differs && of(1, key) ne "" && !usual) {
            settings = settings.(settings eq "" ? "" : ",  ").key." ".of(1, key)
        }
    }
    shown = ""
    do for [s = 2:runs] {
        do for [i = 1:s - 1] { shown = title_of[i] eq title_of[s] ? rare : shown }
    }
}
do for [s = 1:runs] {
    if (runs == 1) { title_of[s] = short("policy", of(s, "policy")) }
    if (title_of[s] eq "") {
        word = given[s]; load here."quote.gp"
        title_of[s] = system("basename -- ".word)
    }
}
do for [s = 2:runs] {
    do for [i = 1:s - 1] { if (title_of[i] eq title_of[s]) { title_of[s] = sprintf("%s (%d)", title_of[s], s) } }
}
# A name of at most `most` letters, and the size of a font that is `size` where it has `room`.
cut(s, most) = strlen(s) > most ? s[1:most - 3]."..." : s
fitting(size, s, room) = strlen(s) <= room ? size : size * room / strlen(s)
