# sweep.gp - reads the table `file` of `memtrace sweep` through sweep.awk and the chart's `script2`.
load here."file.gp"
script = "sweep.awk"; load here."awk.gp"
word = here.script2; load here."quote.gp"
load "< ".lines." | ".awk." -f ".word
if (bad ne "") { printerr file.": ".bad; exit status 2 }
if (left_out ne "") { settings = left_out.",  ".settings }
