"""A real cluster on one machine: several hosts made of Linux namespaces, with Slurm, sshd and MPI on them."""
