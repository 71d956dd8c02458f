# study-read.gp - reads the table `file` of `memtrace study` through study.awk and the chart's
# `script2`.
load here."file.gp"
script = "study.awk"; load here."awk.gp"
word = here.script2; load here."quote.gp"
load "< ".lines." | ".awk." -f ".word
if (bad ne "") { printerr file.": ".bad; exit status 2 }
title = finding.(ending eq "" ? "" : "; ".ending." after ".plural(contexts, "context"))
load here."title.gp"
cached_ink = 0x0072B2; uncached_ink = 0xB04A00 # blue and vermillion, dark enough to read
