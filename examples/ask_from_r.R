# Counts with their intervals in R, from a server (`dpsql help server`); the password is in the environment.
#
#     PGPASSWORD='correct horse' Rscript examples/ask_from_r.R 127.0.0.1 5433 ada study

library(DBI)

given <- commandArgs(trailingOnly = TRUE)
driver <- if (requireNamespace("RPostgres", quietly = TRUE)) RPostgres::Postgres() else RPostgreSQL::PostgreSQL()
con <- dbConnect(driver, host = given[1], port = as.integer(given[2]), user = given[3], dbname = given[4], password = Sys.getenv("PGPASSWORD"))

# With `errors = true`, each column of numbers is followed by the ends of its interval.
counted <- dbGetQuery(con, "
  SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (errors = true) health, COUNT(*) AS n
  FROM people GROUP BY health ORDER BY health")
counted[-1] <- lapply(counted[-1], as.numeric)  # RPostgres gives whole numbers of 64 bits
print(counted)

# Bars with their intervals, in the file Rplots.pdf if no window is open.
at <- barplot(counted$n, names.arg = counted$health, ylim = c(0, max(counted$n_high)), ylab = "people")
arrows(at, counted$n_low, at, counted$n_high, angle = 90, code = 3, length = 0.1)

# A group is known to be larger than another only if its interval lies above the other's.
apart <- outer(counted$n_low, counted$n_high, ">")
dimnames(apart) <- list(more = counted$health, than = counted$health)
print(apart)

invisible(dbDisconnect(con))
