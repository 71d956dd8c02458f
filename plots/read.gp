# read.gp - reads the per-step table `file` as run `name`; table.awk says what is there afterwards.
# With `table` another script reads another table.
load here."file.gp"
if (!exists("table")) { table = "table.awk" }
word = here.table; load here."quote.gp"
load "< ".lines." | LC_ALL=C awk -v name=".name." -f ".word
if (bad ne "") { printerr file.": ".bad; exit status 2 }
