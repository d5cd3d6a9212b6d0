"""The lab's parts: settings, engine (podman or docker), images, network, hosts, repository server, command line."""
