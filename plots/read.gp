# read.gp - reads the per-step table `file` as run `name`; table.awk says what is there afterwards.
# With `table` another script reads another table.
load here."file.gp"
if (!exists("table")) { table = "table.awk" }
script = table; load here."awk.gp"
load "< ".lines." | ".awk." -v name=".name
if (bad ne "") { printerr file.": ".bad; exit status 2 }
