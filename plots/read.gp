# read.gp - reads `file` as run `name` through header.awk and the awk `scripts` of this folder, which say
# what is there afterwards; -v options for them are in `with`. What they refuse ends the chart.
load here."file.gp"
load here."awk.gp"
bad = "awk did not run"
load "< ".lines." | ".awk." -v name=".name.(exists("with") ? with : "")
if (bad ne "") { printerr file.": ".bad; exit status (bad eq "awk did not run" ? 4 : 2) }
